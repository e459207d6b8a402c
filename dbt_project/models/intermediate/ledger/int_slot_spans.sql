-- Each slot's time in inventory, cut wherever its device's state, its layout or its holders change: one state of
-- service and one set of holders in each span.

with

states as (

    select * from {{ ref('int_gpu_state_spans') }}

),

layouts as (

    select * from {{ ref('int_gpu_layouts') }}

),

holds as (

    select * from {{ ref('int_slot_holds') }}

),

inventory as (

    select
        cluster,
        gpu_uuid as gpu_id,
        max_by(gpu_model, seen_at) as gpu_model

    from {{ ref('int_gpu_inventory_changes') }}
    group by cluster, gpu_uuid

),

-- an implied device is of the model that its holders asked for, on a day the one held longest
implied_models as (

    select
        cluster,
        gpu_id,
        usage_date,
        gpu_model

    from (
        select
            holds.cluster,
            holds.gpu_id,
            holds.usage_date,
            runs.gpu_model,
            row_number() over (
                partition by holds.cluster, holds.gpu_id, holds.usage_date
                order by
                    sum({{ microseconds_between('holds.started_at', 'holds.ended_at') }} * holds.share) desc nulls last,
                    runs.gpu_model nulls last
            ) as model_rank
        from holds
        inner join {{ ref('int_runs') }} as runs on holds.run_id = runs.run_id
        where holds.is_implied and runs.gpu_model is not null
        group by holds.cluster, holds.gpu_id, holds.usage_date, runs.gpu_model
    ) as models_held
    where model_rank = 1

),

slot_states as (

    select
        states.cluster,
        states.gpu_id,
        states.node,
        states.usage_date,
        states.state,
        layouts.slot_id,
        layouts.slot_fraction,
        layouts.is_stranded,
        false as is_implied,
        greatest(states.started_at, layouts.valid_from_at) as started_at,
        least(states.ended_at, layouts.valid_until_at) as ended_at

    from states
    inner join layouts
        on
            states.cluster = layouts.cluster
            and states.gpu_id = layouts.gpu_id
            and states.started_at < layouts.valid_until_at
            and states.ended_at > layouts.valid_from_at

),

-- implied devices are in inventory only while, and only as far as, they are held
implied_states as (

    select
        cluster,
        gpu_id,
        node,
        usage_date,
        'in_service' as state,
        slot_id,
        1.0 as slot_fraction,
        false as is_stranded,
        true as is_implied,
        started_at,
        ended_at

    from holds
    where is_implied
    group by cluster, gpu_id, node, usage_date, slot_id, started_at, ended_at

),

based as (

    select * from slot_states
    union all
    select * from implied_states

),

-- on a drained node a slot's service depends on whether any slot of its device is held
holds_cutting as (

    select
        based.cluster,
        based.slot_id,
        based.usage_date,
        based.started_at as base_started_at,
        based.ended_at as base_ended_at,
        holds.started_at,
        holds.ended_at

    from based
    inner join holds
        on
            based.cluster = holds.cluster
            and based.slot_id = holds.slot_id
            and based.usage_date = holds.usage_date
            and holds.started_at < based.ended_at
            and holds.ended_at > based.started_at

    union

    select
        based.cluster,
        based.slot_id,
        based.usage_date,
        based.started_at as base_started_at,
        based.ended_at as base_ended_at,
        holds.started_at,
        holds.ended_at

    from based
    inner join holds
        on
            based.cluster = holds.cluster
            and based.gpu_id = holds.gpu_id
            and based.usage_date = holds.usage_date
            and holds.started_at < based.ended_at
            and holds.ended_at > based.started_at
    where based.state = 'drained'

),

cuts as (

    select cluster, slot_id, usage_date, started_at as base_started_at, started_at as cut_at
    from based
    union
    select cluster, slot_id, usage_date, base_started_at, started_at
    from holds_cutting
    where started_at > base_started_at
    union
    select cluster, slot_id, usage_date, base_started_at, ended_at
    from holds_cutting
    where ended_at < base_ended_at

),

pieces as (

    select
        based.* exclude (started_at, ended_at),
        cuts.cut_at as started_at,
        coalesce(
            lead(cuts.cut_at) over (
                partition by based.cluster, based.slot_id, based.started_at order by cuts.cut_at nulls last
            ),
            based.ended_at
        ) as ended_at

    from based
    inner join cuts
        on
            based.cluster = cuts.cluster
            and based.slot_id = cuts.slot_id
            and based.usage_date = cuts.usage_date
            and based.started_at = cuts.base_started_at

),

held as (

    select
        pieces.cluster,
        pieces.slot_id,
        pieces.started_at,
        sum(holds.share) as held_share,
        bool_or(holds.is_shared) as is_shared

    from pieces
    inner join holds
        on
            pieces.cluster = holds.cluster
            and pieces.slot_id = holds.slot_id
            and pieces.usage_date = holds.usage_date
            and holds.started_at <= pieces.started_at
            and holds.ended_at >= pieces.ended_at
    group by pieces.cluster, pieces.slot_id, pieces.started_at

),

device_held as (

    select
        pieces.cluster,
        pieces.gpu_id,
        pieces.started_at,
        pieces.ended_at

    from pieces
    inner join held
        on pieces.cluster = held.cluster and pieces.slot_id = held.slot_id and pieces.started_at = held.started_at
    where pieces.state = 'drained'

),

spans as (

    select
        pieces.usage_date,
        pieces.cluster,
        pieces.node,
        pieces.gpu_id,
        coalesce(inventory.gpu_model, implied_models.gpu_model, 'unknown') as gpu_model,
        pieces.slot_id,
        pieces.slot_fraction,
        pieces.is_stranded,
        pieces.is_implied,
        pieces.started_at,
        pieces.ended_at,
        pieces.state as node_state,
        case
            when pieces.state in ('down', 'maintenance', 'lost') then true
            when pieces.state = 'drained'
                then not exists (
                    select 1
                    from device_held
                    where
                        device_held.cluster = pieces.cluster
                        and device_held.gpu_id = pieces.gpu_id
                        and device_held.started_at < pieces.ended_at
                        and device_held.ended_at > pieces.started_at
                )
            else false
        end as is_out_of_service,
        coalesce(held.held_share, 0.0) as held_share,
        coalesce(held.is_shared, false) as is_shared

    from pieces
    left join held
        on pieces.cluster = held.cluster and pieces.slot_id = held.slot_id and pieces.started_at = held.started_at
    left join inventory on pieces.cluster = inventory.cluster and pieces.gpu_id = inventory.gpu_id
    left join implied_models
        on
            pieces.is_implied
            and pieces.cluster = implied_models.cluster
            and pieces.gpu_id = implied_models.gpu_id
            and pieces.usage_date = implied_models.usage_date
    where pieces.started_at < pieces.ended_at

)

select * from spans
