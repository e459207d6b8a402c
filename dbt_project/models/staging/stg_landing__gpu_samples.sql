{{ landed('gpu_samples') }}
