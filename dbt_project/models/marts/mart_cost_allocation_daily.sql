-- What every team, application and model is charged, on three bases side by side, and beside it the money that is
-- nobody's, line by line. A plain table: a line of a bill that comes into scope later changes days that nothing else
-- touches.

with

cost_lines as (

    select * from {{ ref('int_cost_lines_daily') }}

)

select * from cost_lines
