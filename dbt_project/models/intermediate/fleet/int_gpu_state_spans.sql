-- Each device's time in inventory, cut by day and by the states of its node and of itself. Whether a drained device
-- is out of service is decided later, when it is known whether anyone still holds it.

with

inventory_spans as (

    select * from {{ ref('int_gpu_inventory_spans') }}

),

node_states as (

    select * from {{ ref('int_node_states_resolved') }}
    where state <> 'in_service'

),

loss_events as (

    select * from {{ ref('int_gpu_loss_events') }}

),

-- lost until the next time it is told to work
lost_spans as (

    select
        cluster,
        gpu_id,
        told_at as started_at,
        coalesce(next_told_at, timestamp '9999-01-01') as ended_at

    from (
        select
            loss_events.*,
            lead(told_at) over (
                partition by cluster, gpu_id order by told_at nulls last, is_lost nulls last
            ) as next_told_at
        from loss_events
    ) as followed
    where is_lost

),

days as (

    select
        inventory_spans.cluster,
        inventory_spans.gpu_id,
        inventory_spans.node,
        inventory_spans.started_at,
        inventory_spans.ended_at,
        {{ each_touched('day', 'inventory_spans.started_at', 'inventory_spans.ended_at') }} as day_start_at

    from inventory_spans

),

in_days as (

    select
        cluster,
        gpu_id,
        node,
        cast(day_start_at as date) as usage_date,
        greatest(started_at, day_start_at) as started_at,
        least(ended_at, day_start_at + interval 1 day, {{ window_end() }}) as ended_at

    from days
    where {{ in_ledger_days('cast(day_start_at as date)') }} and greatest(started_at, day_start_at) < {{ window_end() }}

),

states as (

    select
        in_days.cluster,
        in_days.gpu_id,
        in_days.started_at as inventory_started_at,
        node_states.state,
        greatest(node_states.started_at, in_days.started_at) as started_at,
        least(node_states.ended_at, in_days.ended_at) as ended_at

    from in_days
    inner join node_states
        on
            in_days.cluster = node_states.cluster
            and in_days.node = node_states.node
            and node_states.started_at < in_days.ended_at
            and node_states.ended_at > in_days.started_at

    union all

    select
        in_days.cluster,
        in_days.gpu_id,
        in_days.started_at as inventory_started_at,
        'lost' as state,
        greatest(lost_spans.started_at, in_days.started_at) as started_at,
        least(lost_spans.ended_at, in_days.ended_at) as ended_at

    from in_days
    inner join lost_spans
        on
            in_days.cluster = lost_spans.cluster
            and in_days.gpu_id = lost_spans.gpu_id
            and lost_spans.started_at < in_days.ended_at
            and lost_spans.ended_at > in_days.started_at

),

cuts as (

    select cluster, gpu_id, started_at as inventory_started_at, started_at as cut_at from in_days
    union
    select cluster, gpu_id, inventory_started_at, started_at from states
    union
    select cluster, gpu_id, inventory_started_at, ended_at from states

),

pieces as (

    select
        in_days.cluster,
        in_days.gpu_id,
        in_days.node,
        in_days.usage_date,
        in_days.started_at as inventory_started_at,
        cuts.cut_at as started_at,
        coalesce(
            lead(cuts.cut_at) over (
                partition by in_days.cluster, in_days.gpu_id, in_days.started_at order by cuts.cut_at nulls last
            ),
            in_days.ended_at
        ) as ended_at

    from in_days
    inner join cuts
        on
            in_days.cluster = cuts.cluster
            and in_days.gpu_id = cuts.gpu_id
            and in_days.started_at = cuts.inventory_started_at

),

stated as (

    select
        pieces.cluster,
        pieces.gpu_id,
        pieces.node,
        pieces.usage_date,
        pieces.started_at,
        pieces.ended_at,
        coalesce(
            min_by(
                states.state,
                case states.state
                    when 'down' then 1
                    when 'maintenance' then 2
                    when 'lost' then 3
                    when 'drained' then 4
                    when 'reserved' then 5
                    else 6
                end
            ),
            'in_service'
        ) as state

    from pieces
    left join states
        on
            pieces.cluster = states.cluster
            and pieces.gpu_id = states.gpu_id
            and pieces.inventory_started_at = states.inventory_started_at
            and states.started_at <= pieces.started_at
            and states.ended_at >= pieces.ended_at
            and states.started_at < states.ended_at
    where pieces.started_at < pieces.ended_at
    group by pieces.cluster, pieces.gpu_id, pieces.node, pieces.usage_date, pieces.started_at, pieces.ended_at

)

select * from stated
