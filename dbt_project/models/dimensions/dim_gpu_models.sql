with

gpus as (

    select * from {{ ref('dim_gpus') }}

),

catalogue as (

    select * from {{ ref('gpu_models') }}

),

-- names come from drivers, schedulers and people: blanks, hyphens and underscores are one
landed_models as (

    select
        gpu_model,
        concat('-', replace(replace(lower(gpu_model), ' ', '-'), '_', '-'), '-') as name_tokens,
        count(*) as gpu_count,
        max(memory_bytes) as landed_memory_bytes

    from gpus
    group by gpu_model

),

members as (

    select * from landed_models
    union all
    select
        'unknown' as gpu_model,
        '-unknown-' as name_tokens,
        0 as gpu_count,
        cast(null as bigint) as landed_memory_bytes
    where not exists (select 1 from landed_models where landed_models.gpu_model = 'unknown')

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
