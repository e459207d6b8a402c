{{ landed_last(
    'inference_usage',
    ['cluster', 'server', 'job_id', 'workload', 'namespace', 'model', 'adapter', 'interval_start_at'],
    by_day=true
) }}
