{{ landed_last('nodes', ['cluster', 'node', 'seen_at'], by_day=true) }}
