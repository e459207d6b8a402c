-- As the cluster is known to be: what a source told last, no matter when this is read.

with

gpus as (

    select * from {{ ref('dim_gpus') }}

),

history as (

    select * from {{ ref('dim_gpu_history') }}
    where valid_to_at is null

),

nodes as (

    select * from {{ ref('dim_nodes') }}

),

clusters_known as (

    select * from {{ ref('int_clusters_known') }}

),

layouts as (

    select * from {{ ref('int_gpu_layouts') }}
    where valid_until_at = timestamp '9999-01-01'

),

node_states as (

    select * from {{ ref('int_node_states_resolved') }}

),

loss_events as (

    select * from {{ ref('int_gpu_loss_events') }}

),

last_holds as (

    select * from {{ ref('int_last_holds') }}

),

runs as (

    select * from {{ ref('int_runs') }}
    where is_provisional

),

activity as (

    select * from {{ ref('int_device_activity_hourly') }}

),

device_hours as (

    select * from {{ ref('int_device_hours') }}

),

ledger as (

    select * from {{ ref('fct_gpu_ledger_hourly') }}

),

devices as (

    select
        gpus.*,
        coalesce(clusters_known.known_until_at, gpus.last_seen_at) as as_of_at,
        date_trunc('hour', coalesce(clusters_known.known_until_at, gpus.last_seen_at) - interval 1 microsecond)
            + interval 1 hour as hours_until_at

    from gpus
    left join clusters_known on gpus.cluster = clusters_known.cluster

),

profiles as (

    select
        cluster,
        gpu_id,
        {{ joined_text('mig_profile', 'mig_profile') }} as mig_profiles

    from layouts
    where mig_profile is not null and not is_stranded
    group by cluster, gpu_id

),

states_now as (

    select
        devices.gpu_id,
        min_by(
            node_states.state,
            case node_states.state
                when 'down' then 1
                when 'maintenance' then 2
                when 'drained' then 4
                when 'reserved' then 5
                else 6
            end
        ) as node_state

    from devices
    inner join node_states
        on
            devices.cluster = node_states.cluster
            and devices.node = node_states.node
            and node_states.state <> 'in_service'
            and node_states.started_at < devices.as_of_at
            and node_states.ended_at >= devices.as_of_at
    group by devices.gpu_id

),

losses as (

    select
        devices.gpu_id,
        max_by(loss_events.is_lost, loss_events.told_at) as is_lost

    from devices
    inner join loss_events
        on
            devices.cluster = loss_events.cluster
            and devices.gpu_id = loss_events.gpu_id
            and loss_events.told_at <= devices.as_of_at
    group by devices.gpu_id

),

holding as (

    select
        last_holds.gpu_id,
        last_holds.cluster,
        runs.run_id,
        runs.workload_id,
        runs.team,
        sum(last_holds.share * last_holds.slot_fraction) as held_share

    from last_holds
    inner join runs on last_holds.run_id = runs.run_id and last_holds.ended_at = runs.held_until_at
    inner join clusters_known
        on last_holds.cluster = clusters_known.cluster and last_holds.ended_at >= clusters_known.known_until_at
    group by last_holds.gpu_id, last_holds.cluster, runs.run_id, runs.workload_id, runs.team

),

holders as (

    select
        cluster,
        gpu_id,
        {{ joined_text('run_id', 'run_id') }} as run_ids,
        {{ joined_text('distinct workload_id', 'workload_id') }} as workload_ids,
        {{ joined_text('distinct team', 'team') }} as teams,
        sum(held_share) as held_share

    from holding
    group by cluster, gpu_id

),

recent_activity as (

    select
        devices.gpu_id,
        sum(activity.covered_us) as covered_7d_us,
        sum(activity.activity_us) as activity_7d_us,
        sum(case when activity.hour_start_at >= devices.hours_until_at - interval 1 day then activity.covered_us end) as covered_1d_us,
        sum(case when activity.hour_start_at >= devices.hours_until_at - interval 1 day then activity.activity_us end) as activity_1d_us

    from devices
    inner join activity
        on
            devices.cluster = activity.cluster
            and devices.gpu_id = activity.gpu_id
            and activity.hour_start_at >= devices.hours_until_at - interval 7 day
            and activity.hour_start_at < devices.hours_until_at
    group by devices.gpu_id

),

recent_hours as (

    select
        devices.gpu_id,
        cast(sum(device_hours.inventory_us) as bigint) as inventory_7d_us,
        cast(sum(
            case when device_hours.hour_start_at >= devices.hours_until_at - interval 1 day then device_hours.inventory_us end
        ) as bigint) as inventory_1d_us

    from devices
    inner join device_hours
        on
            devices.cluster = device_hours.cluster
            and devices.gpu_id = device_hours.gpu_id
            and device_hours.hour_start_at >= devices.hours_until_at - interval 7 day
            and device_hours.hour_start_at < devices.hours_until_at
    group by devices.gpu_id

),

recent_ledger as (

    select
        devices.gpu_id,
        cast(sum(case when ledger.is_ghost then ledger.gpu_microseconds else 0 end) as bigint) as ghost_us,
        cast(sum(case when ledger.cost is not null then ledger.gpu_microseconds else 0 end) as bigint) as priced_us,
        sum(ledger.cost) as cost,
        sum(case when ledger.is_ghost then ledger.cost when ledger.cost is not null then 0 end) as ghost_cost,
        max_by(ledger.cost_source, ledger.hour_start_at) as cost_source,
        min(case when ledger.cost is not null then ledger.currency end) as currency,
        -- amounts of two currencies are not added
        coalesce(count(distinct case when ledger.cost is not null then ledger.currency end) = 1, false) as is_priced

    from devices
    inner join ledger
        on
            devices.cluster = ledger.cluster
            and devices.gpu_id = ledger.gpu_id
            and ledger.hour_start_at >= devices.hours_until_at - interval 7 day
            and ledger.hour_start_at < devices.hours_until_at
    group by devices.gpu_id

),

joined as (

    select
        devices.gpu_id,
        devices.cluster,
        devices.node_id,
        devices.node,
        devices.as_of_at,
        devices.gpu_model,
        devices.memory_bytes,
        devices.pci_bus_id,
        nodes.provider,
        nodes.region,
        nodes.zone,
        nodes.rack,
        history.driver_version,
        devices.slot_count,
        coalesce(profiles.mig_profiles, '') as mig_profiles,
        devices.is_implied,
        devices.first_seen_at,
        devices.last_seen_at,
        case
            when states_now.node_state in ('down', 'maintenance') then states_now.node_state
            when coalesce(losses.is_lost, false) then 'lost'
            when devices.last_seen_at < devices.as_of_at - interval {{ var('inventory_absent_minutes') }} minute then 'not_seen'
            else coalesce(states_now.node_state, 'in_service')
        end as service_state,
        coalesce(holders.run_ids, '') as run_ids,
        coalesce(holders.workload_ids, '') as workload_ids,
        coalesce(holders.teams, '') as teams,
        coalesce(holders.held_share, 0.0) as held_share,
        recent_activity.activity_1d_us,
        recent_activity.activity_7d_us,
        recent_activity.covered_1d_us,
        recent_activity.covered_7d_us,
        recent_hours.inventory_1d_us,
        recent_hours.inventory_7d_us,
        recent_ledger.ghost_us,
        recent_ledger.priced_us,
        recent_ledger.cost,
        recent_ledger.ghost_cost,
        recent_ledger.cost_source,
        recent_ledger.currency,
        coalesce(recent_ledger.is_priced, false) as is_priced

    from devices
    left join history on devices.gpu_id = history.gpu_id
    left join nodes on devices.node_id = nodes.node_id
    left join profiles on devices.cluster = profiles.cluster and devices.gpu_id = profiles.gpu_id
    left join states_now on devices.gpu_id = states_now.gpu_id
    left join losses on devices.gpu_id = losses.gpu_id
    left join holders on devices.cluster = holders.cluster and devices.gpu_id = holders.gpu_id
    left join recent_activity on devices.gpu_id = recent_activity.gpu_id
    left join recent_hours on devices.gpu_id = recent_hours.gpu_id
    left join recent_ledger on devices.gpu_id = recent_ledger.gpu_id

),

final as (

    select
        gpu_id,
        cluster,
        node_id,
        node,
        as_of_at,
        gpu_model,
        memory_bytes,
        pci_bus_id,
        provider,
        region,
        zone,
        rack,
        driver_version,
        slot_count,
        mig_profiles,
        is_implied,
        first_seen_at,
        last_seen_at,
        service_state,
        run_ids,
        workload_ids,
        teams,
        cast(least(1.0, held_share) as double) as held_ratio,
        cast(activity_1d_us / nullif(covered_1d_us, 0) as double) as activity_1d_ratio,
        case
            when inventory_1d_us > 0 then least(1.0, cast(coalesce(covered_1d_us, 0) as double) / inventory_1d_us)
        end as coverage_1d_ratio,
        cast(activity_7d_us / nullif(covered_7d_us, 0) as double) as activity_7d_ratio,
        case
            when inventory_7d_us > 0 then least(1.0, cast(coalesce(covered_7d_us, 0) as double) / inventory_7d_us)
        end as coverage_7d_ratio,
        cast(coalesce(inventory_7d_us, 0) as double) / 3.6e9 as capacity_7d_gpu_hours,
        cast(coalesce(ghost_us, 0) as double) / 3.6e9 as ghost_7d_gpu_hours,
        case when is_priced then cast(cost as decimal(18, 6)) end as last_7d_cost,
        case when is_priced then cast(ghost_cost as decimal(18, 6)) end as ghost_7d_cost,
        {{ unit_cost('cost', 'priced_us / 3.6e9', 1) }} as cost_per_gpu_hour,
        case when is_priced then currency else 'unknown' end as currency,
        coalesce(cost_source, 'unpriced') as cost_source

    from joined

)

select * from final
