{{ landed_last('rate_cards', ['gpu_model', 'provider', 'cluster', 'currency', 'valid_from']) }}
