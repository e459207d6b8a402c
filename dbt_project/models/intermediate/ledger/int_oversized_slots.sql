-- (filled in by its own change)

select
    cast(null as integer) as slot_run_number,
    cast(null as date) as usage_date,
    cast(null as double) as fit_ratio
where false
