-- A Monday begins the calendar, so that a day's number in its week follows from its number in the calendar; what
-- engines call the day of the week differs from one to the next.

with

digits as (

    select 0 as digit
    {% for digit in range(1, 10) %}
    union all
    select {{ digit }} as digit
    {% endfor %}

),

day_numbers as (

    select ones.digit + 10 * tens.digit + 100 * hundreds.digit + 1000 * thousands.digit as day_number
    from digits as ones
    cross join digits as tens
    cross join digits as hundreds
    cross join digits as thousands

),

days as (

    select
        day_number % 7 + 1 as day_of_week,
        cast('2010-01-04' as date) + day_number as usage_date

    from day_numbers

),

weeks_added as (

    select
        days.*,
        usage_date - (day_of_week - 1) as week_start_date,
        -- a week belongs to the year that holds its Thursday (ISO 8601)
        usage_date - (day_of_week - 4) as thursday_date

    from days

),

final as (

    select
        usage_date,
        day_of_week,
        case day_of_week
            when 1 then 'Monday'
            when 2 then 'Tuesday'
            when 3 then 'Wednesday'
            when 4 then 'Thursday'
            when 5 then 'Friday'
            when 6 then 'Saturday'
            else 'Sunday'
        end as day_name,
        day_of_week >= 6 as is_weekend,
        week_start_date,
        week_start_date + 6 as week_end_date,
        concat(extract(year from thursday_date), '-W', right(concat('0', extract(week from usage_date)), 2)) as week,
        cast(date_trunc('month', usage_date) as date) as month_start_date,
        last_day(usage_date) as month_end_date,
        concat(extract(year from usage_date), '-', right(concat('0', extract(month from usage_date)), 2)) as month,
        cast(extract(day from last_day(usage_date)) as integer) as days_in_month,
        cast(date_trunc('quarter', usage_date) as date) as quarter_start_date,
        concat(extract(year from usage_date), '-Q', extract(quarter from usage_date)) as quarter,
        cast(extract(year from usage_date) as integer) as year_number

    from weeks_added

)

select * from final
