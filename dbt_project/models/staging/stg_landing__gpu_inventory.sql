{{ landed_last('gpu_inventory', ['cluster', 'gpu_uuid', 'slot_uuid', 'seen_at'], by_day=true) }}
