#!/bin/sh
# A Slurm TaskProlog: gives every task of a job that names CHIMERA_MODEL the settings that a service chose.
#
# In slurm.conf: TaskProlog=/etc/slurm/chimera/task_prolog.sh, with ask.sh beside it. Slurm applies the lines
# `export NAME=value` that it prints to the task's environment, and writes the lines `print ...` to the task's
# output. Jobs that do not name a model are left alone. It always ends with exit code 0.
here=$(dirname "$0")
{ sh "$here/ask.sh" 2>&1 >&3 | sed 's/^/print /'; } 3>&1
exit 0
