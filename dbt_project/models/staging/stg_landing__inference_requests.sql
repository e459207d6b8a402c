{{ landed_last_of_day('inference_requests', ['cluster', 'request_id', 'started_at']) }}
