{{ landed_last('runs', ['cluster', 'job_id', 'started_at', 'observed_at']) }}
