{{ landed_last(
    'run_gpus', ['cluster', 'job_id', 'node', 'gpu_uuid', 'slot_uuid', 'gpu_index', 'pci_bus_id', 'mig_profile', 'started_at']
) }}
