-- (filled in by its own change)

select
    cast(null as integer) as run_number,
    cast(null as timestamp) as minute_start_at
where false
