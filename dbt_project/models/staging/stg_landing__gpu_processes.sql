{{ landed_last('gpu_processes', ['cluster', 'gpu_uuid', 'slot_uuid', 'pid', 'seen_at'], by_day=true) }}
