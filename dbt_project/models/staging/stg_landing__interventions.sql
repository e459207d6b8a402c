{{ landed_last('interventions', ['intervention_id']) }}
