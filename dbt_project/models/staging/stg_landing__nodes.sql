{{ landed_last('nodes', ['cluster', 'node', 'seen_at']) }}
