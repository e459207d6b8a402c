{{ config(
    materialized='incremental',
    incremental_strategy='replace_days',
    meta={'days': 'landed', 'landed_table': 'gpu_inventory', 'day_column': 'dt'},
    on_schema_change='append_new_columns'
) }}

-- Kept, where others are views: a dozen models ask for the whole history of what was seen.

{{ landed_last('gpu_inventory', ['cluster', 'gpu_uuid', 'slot_uuid', 'seen_at'], by_day=true) }}
and {{ in_landed_days('gpu_inventory') }}
