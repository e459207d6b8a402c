with

gpus as (

    select * from {{ ref('dim_gpus') }}

),

history as (

    select * from {{ ref('dim_gpu_history') }}

),

slot_spans as (

    select * from {{ ref('int_slot_spans') }}

),

catalogue as (

    select * from {{ ref('gpu_models') }}

),

-- a card is of one model now, and hours of the past stand under what it was called then
named as (

    select gpu_model from gpus
    union
    select gpu_model from history
    union
    select gpu_model from slot_spans
    union
    select 'unknown' as gpu_model

),

gpus_counted as (

    select
        gpu_model,
        count(*) as gpu_count,
        max(memory_bytes) as landed_memory_bytes

    from gpus
    group by gpu_model

),

-- names come from drivers, schedulers and people: blanks, hyphens and underscores are one
members as (

    select
        named.gpu_model,
        concat('-', replace(replace(lower(named.gpu_model), ' ', '-'), '_', '-'), '-') as name_tokens,
        coalesce(gpus_counted.gpu_count, 0) as gpu_count,
        gpus_counted.landed_memory_bytes

    from named
    left join gpus_counted on named.gpu_model = gpus_counted.gpu_model
    where named.gpu_model is not null

),

matched as (

    select
        members.*,
        catalogue.catalogue_model,
        catalogue.vendor,
        catalogue.architecture,
        catalogue.memory_bytes as catalogue_memory_bytes,
        catalogue.compute_slices,
        catalogue.memory_slices,
        catalogue.mig_family,
        catalogue.tdp_watts,
        catalogue.sm_clock_max_mhz,
        catalogue.supports_mig,
        row_number() over (
            partition by members.gpu_model
            order by catalogue.match_order asc nulls last
        ) as match_rank

    from members
    left join catalogue
        on members.name_tokens like catalogue.name_pattern

),

final as (

    select
        gpu_model,
        coalesce(catalogue_model, 'unknown') as catalogue_model,
        coalesce(vendor, 'unknown') as vendor,
        coalesce(architecture, 'unknown') as architecture,
        gpu_count,
        coalesce(landed_memory_bytes, catalogue_memory_bytes) as memory_bytes,
        compute_slices,
        memory_slices,
        mig_family,
        tdp_watts,
        sm_clock_max_mhz,
        coalesce(supports_mig, false) as supports_mig

    from matched
    where match_rank = 1

)

select * from final
