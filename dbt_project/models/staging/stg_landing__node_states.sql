{{ landed_last('node_states', ['cluster', 'node', 'state', 'started_at']) }}
