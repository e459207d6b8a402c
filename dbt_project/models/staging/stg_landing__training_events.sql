{{ landed_last('training_events', ['cluster', 'job_id', 'kind', 'step', 'at'], by_day=true) }}
