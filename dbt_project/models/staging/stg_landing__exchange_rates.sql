{{ landed_last('exchange_rates', ['currency', 'reporting_currency', 'valid_from']) }}
