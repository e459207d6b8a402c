-- The series of samples and their numbers: what a source told of a card, or of a MIG instance of one, on a node. Minutes name
-- their series by number, since names take a quarter of the time of writing them; a number once given stays.

{{ config(materialized='incremental', incremental_strategy='append') }}

with

told as (

    select distinct
        cluster,
        node,
        gpu_uuid,
        slot_uuid,
        source

    from {{ ref('int_sample_series_days') }}

),

{% if is_incremental() -%}
known as (

    select * from {{ this }}

),

{% endif -%}
new as (

    select told.*
    from told
    {%- if is_incremental() %}
    left join known
        on
            told.cluster = known.cluster
            and told.node = known.node
            and told.gpu_uuid = known.gpu_uuid
            and told.slot_uuid is not distinct from known.slot_uuid
            and told.source = known.source
    where known.series_number is null
    {%- endif %}

),

numbered as (

    select
        cast(
            row_number() over (
                order by cluster nulls first, node nulls first, gpu_uuid nulls first, slot_uuid nulls first, source nulls first
            )
            {%- if is_incremental() %} + coalesce((select max(known.series_number) from known), 0){% endif %} as integer
        ) as series_number,
        cluster,
        node,
        gpu_uuid,
        slot_uuid,
        source

    from new

)

select * from numbered
