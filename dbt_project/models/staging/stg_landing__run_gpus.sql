{{ landed_last('run_gpus', ['cluster', 'job_id', 'node', 'gpu_uuid', 'slot_uuid', 'gpu_index', 'mig_profile', 'started_at']) }}
