-- Which workload a run belongs to, and of what kind it is (semantics 3): by workload_rules first, by rising
-- priority; else by labels; else by account and name with each run of digits written #.

{% set placeholder_namespaces = "'" ~ var('placeholder_namespaces') | join("', '") ~ "'" %}

with

runs as (

    select * from {{ ref('int_runs_clipped') }}

),

rules as (

    select * from {{ ref('stg_landing__workload_rules') }}

),

usage as (

    select * from {{ ref('int_usage_servers_daily') }}

),

names as (

    select distinct
        cluster,
        namespace,
        coalesce(name, '') as name,
        cast(coalesce(started_at, submitted_at, observed_at) as date) as rule_date

    from runs

),

matches as (

    select
        names.cluster,
        names.namespace,
        names.name,
        names.rule_date,
        rules.workload,
        rules.application,
        rules.team,
        rules.model,
        rules.kind,
        rules.latency_target_p95_seconds,
        rules.min_replicas,
        rules.replica_capacity_per_second,
        row_number() over (
            partition by names.cluster, names.namespace, names.name, names.rule_date
            order by rules.priority nulls last, rules.landed_at desc nulls last, rules.line_number nulls last
        ) as match_rank

    from names
    inner join rules
        on
            (rules.cluster is null or rules.cluster = names.cluster)
            and (rules.namespace is null or rules.namespace = names.namespace)
            and (rules.valid_from is null or cast(rules.valid_from as date) <= names.rule_date)
            and (rules.valid_to is null or cast(rules.valid_to as date) > names.rule_date)
    where rules.name_regex is null or {{ is_found('rules.name_regex', 'names.name') }}

),

first_matches as (

    select * from matches
    where match_rank = 1

),

serving_jobs as (

    select distinct
        cluster,
        job_id

    from usage
    where job_id is not null

),

serving_workloads as (

    select distinct
        cluster,
        coalesce(namespace, '-') as namespace,
        workload

    from usage
    where workload is not null

),

named as (

    select
        runs.*,
        coalesce(
            first_matches.workload,
            nullif(runs.owner_name, ''),
            nullif({{ json_text('runs.labels', 'app.kubernetes.io/name') }}, ''),
            nullif({{ digits_masked('runs.name') }}, ''),
            'unknown'
        ) as workload,
        coalesce(first_matches.application, nullif({{ json_text('runs.labels', 'application') }}, ''), 'unknown') as application,
        coalesce(first_matches.team, nullif({{ json_text('runs.labels', 'team') }}, ''), 'unknown') as team,
        coalesce(first_matches.model, nullif({{ json_text('runs.labels', 'model') }}, ''), 'unknown') as model,
        first_matches.kind as rule_kind,
        first_matches.latency_target_p95_seconds,
        first_matches.min_replicas,
        first_matches.replica_capacity_per_second,
        case
            when serving_jobs.job_id is not null then 'inference'
            when
                lower({{ json_text('runs.labels', 'interactive') }}) in ('true', '1')
                or {{ is_found("'(?i)jupyter'", "coalesce(runs.name, '')") }}
                then 'interactive'
            -- a controller that serves, one that opens a desk for a person, one that runs steps, one that trains
            when
                runs.owner_kind in (
                    'InferenceService', 'LLMInferenceService', 'InferenceWorkload', 'DistributedInferenceWorkload', 'LeaderWorkerSet',
                    'RayService', 'NIMService', 'SeldonDeployment', 'DynamoGraphDeployment'
                )
                then 'inference'
            when runs.owner_kind in ('Notebook', 'InteractiveWorkload') then 'interactive'
            when
                runs.owner_kind in (
                    'CronJob', 'Workflow', 'CronWorkflow', 'ScheduledWorkflow', 'PipelineRun', 'TaskRun', 'SparkApplication', 'ScaledJob'
                )
                then 'batch'
            when
                runs.scheduler = 'slurm'
                or runs.owner_kind in (
                    'Job', 'PyTorchJob', 'TFJob', 'MPIJob', 'XGBoostJob', 'JAXJob', 'PaddleJob', 'TrainJob', 'RayJob', 'JobSet',
                    'RunaiJob', 'TrainingWorkload', 'DistributedWorkload'
                )
                then 'training'
            else 'unknown'
        end as own_kind,
        -- pods that hold a card for those that share it: the collector knows them, their namespaces are the second sign
        coalesce(lower({{ json_text('runs.labels', 'reservation') }}) in ('true', '1'), false)
        or coalesce(runs.namespace in ({{ placeholder_namespaces }}), false) as is_placeholder

    from runs
    left join first_matches
        on
            runs.cluster = first_matches.cluster
            and runs.namespace = first_matches.namespace
            and coalesce(runs.name, '') = first_matches.name
            and cast(coalesce(runs.started_at, runs.submitted_at, runs.observed_at) as date) = first_matches.rule_date
    left join serving_jobs on runs.cluster = serving_jobs.cluster and runs.job_id = serving_jobs.job_id

),

-- a service one of whose pods was seen serving is an inference service
kinds as (

    select
        named.*,
        named.cluster || '/' || named.namespace || '/' || named.workload as workload_id,
        coalesce(
            named.rule_kind,
            case
                when
                    serving_workloads.workload is not null
                    or bool_or(named.own_kind = 'inference') over (partition by named.cluster, named.namespace, named.workload)
                    then 'inference'
            end,
            named.own_kind
        ) as kind

    from named
    left join serving_workloads
        on
            named.cluster = serving_workloads.cluster
            and named.namespace = serving_workloads.namespace
            and named.workload = serving_workloads.workload

)

select * from kinds
