{{ landed_last('run_gpus', ['cluster', 'job_id', 'node', 'gpu_uuid', 'slot_uuid', 'started_at']) }}
