{{ landed('billing_lines') }}
