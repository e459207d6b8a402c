{{ landed_last('workload_rules', ['priority', 'cluster', 'namespace', 'name_regex', 'valid_from']) }}
