{{ landed_last_of_day(
    'inference_usage',
    ['cluster', 'server', 'job_id', 'workload', 'namespace', 'model', 'adapter', 'interval_start_at']
) }}
