{{ landed_last_of_day('gpu_processes', ['cluster', 'gpu_uuid', 'slot_uuid', 'pid', 'seen_at']) }}
