{{ landed_last('node_samples', ['cluster', 'node', 'interval_start_at'], by_day=true) }}
