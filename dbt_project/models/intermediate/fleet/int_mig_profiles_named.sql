-- One name for each MIG profile, however a source writes it: without prefix, compute instance and media engines, and with the
-- memory of the seed `mig_profiles`. Drivers and schedulers round an instance's memory up or down (3g.39gb is 3g.40gb):
-- a profile that the seed does not know is the one of as many compute slices whose memory is a gigabyte more, else one
-- less, else itself.

with

seed_profiles as (

    select distinct
        mig_profile,
        cast({{ captured_text('mig_profile', "'^([0-9]+)g[.]'") }} as bigint) as compute_slices,
        cast({{ captured_text('mig_profile', "'[.]([0-9]+)gb'") }} as bigint) as memory_gigabytes

    from {{ ref('mig_profiles') }}

),

written as (

    select lower(mig_profile) as written_as
    from {{ ref('int_gpu_inventory_changes') }}
    where mig_profile is not null

    union

    select lower(mig_profile) as written_as
    from {{ ref('stg_landing__runs') }}
    where mig_profile is not null

    union

    select lower(mig_profile) as written_as
    from {{ ref('stg_landing__run_gpus') }}
    where mig_profile is not null

),

parsed as (

    select
        written_as,
        {{ mig_profile_name('written_as') }} as profile_name,
        cast({{ captured_text('written_as', "'([0-9]+)g[.][0-9]+gb'") }} as bigint) as compute_slices,
        cast({{ captured_text('written_as', "'[0-9]+g[.]([0-9]+)gb'") }} as bigint) as memory_gigabytes

    from written

),

named as (

    select
        parsed.written_as,
        coalesce(
            max(case when seed_profiles.memory_gigabytes = parsed.memory_gigabytes then seed_profiles.mig_profile end),
            max(case when seed_profiles.memory_gigabytes = parsed.memory_gigabytes + 1 then seed_profiles.mig_profile end),
            max(case when seed_profiles.memory_gigabytes = parsed.memory_gigabytes - 1 then seed_profiles.mig_profile end),
            parsed.profile_name
        ) as mig_profile

    from parsed
    left join seed_profiles on parsed.compute_slices = seed_profiles.compute_slices
    group by parsed.written_as, parsed.profile_name

)

select * from named
