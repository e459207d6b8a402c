"""What nvidia-smi and AMD's rocm-smi print, saved to files: samples, inventory with MIG layouts, processes."""
