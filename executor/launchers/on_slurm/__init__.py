"""How are ranks run under Slurm? One job of sbatch, made by submitit, with a task for each rank."""
