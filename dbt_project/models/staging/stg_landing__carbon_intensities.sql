{{ landed_last('carbon_intensities', ['cluster', 'region', 'valid_from']) }}
