-- Which team pays for idle memory?
--
-- Reserved memory is time in which a GPU computes nothing while its memory is in use, so that nobody else can have it.
--
-- Answer: Team {team} pays most: {cost:,.2f} {currency} for {gpu_hours:,.1f} GPU-hours in the last seven days, {share_of_held:.1%} of
-- the time it held.
with

days as (

    select max(usage_date) - 6 as first_date, max(usage_date) as last_date from mart_ghost_capacity_daily

)

select
    team,
    sum(gpu_hours) filter (state = 'reserved_memory') as gpu_hours,
    sum(cost) filter (state = 'reserved_memory') as cost,
    currency,
    sum(gpu_hours) filter (state = 'reserved_memory') / nullif(sum(gpu_hours), 0) as share_of_held
from mart_ghost_capacity_daily
inner join days on usage_date between first_date and last_date
where state not in ('out_of_service', 'unallocated', 'borrowed', 'commitment_unused')
group by team, currency
having sum(gpu_hours) filter (state = 'reserved_memory') > 0
order by cost desc nulls last, gpu_hours desc nulls last, team
