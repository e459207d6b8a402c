{{ landed_last('inference_requests', ['cluster', 'request_id', 'started_at'], by_day=true) }}
