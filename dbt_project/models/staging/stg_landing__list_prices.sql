{{ landed_last('list_prices', ['model', 'listed_as', 'provider', 'currency', 'valid_from']) }}
