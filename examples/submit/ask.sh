#!/bin/sh
# Asks a service how to split this job's training over its devices, with curl and a POSIX shell alone.
#
# Prints lines such as `export CHIMERA_WIDTH=8` for the shell to evaluate, or nothing, and then says why on
# stderr. It always ends with exit code 0, and after at most about four times CHIMERA_PATIENCE seconds: a job
# must start whether or not somebody answers. All tasks of a job share one Idempotency-Key, so they make one study.
#
#   CHIMERA_URL, CHIMERA_API_KEY   the service, and a key of scope submit where it wants one
#   CHIMERA_MODEL                  a preset's name; without it (and CHIMERA_REQUEST) nothing is asked
#   CHIMERA_MINI_BATCH_SIZE        samples of an optimizer step
#   CHIMERA_CLUSTER                a preset's name, or CHIMERA_ACCELERATOR a data sheet's
#   CHIMERA_DEVICES                by default what Slurm gave the job
#   CHIMERA_REQUEST                a whole request in JSON, instead of the five above
#   CHIMERA_PATIENCE               seconds for each of two calls (10)

say() { printf 'chimera: %s; the job keeps its own settings\n' "$1" >&2; }

give_up() {
    say "$1"
    exit 0
}

# A word that can stand in JSON as it is.
word() {
    case $2 in
        *[!A-Za-z0-9._-]*) give_up "$1 is not a plain word" ;;
    esac
}

number() {
    case $2 in
        '' | *[!0-9]*) give_up "$1 is not a whole number" ;;
    esac
}

request() {
    devices=${CHIMERA_DEVICES:-$((${SLURM_NNODES:-1} * ${SLURM_GPUS_ON_NODE:-1}))}
    word CHIMERA_MODEL "$CHIMERA_MODEL"
    word CHIMERA_CLUSTER "${CHIMERA_CLUSTER:-}"
    word CHIMERA_ACCELERATOR "${CHIMERA_ACCELERATOR:-}"
    number CHIMERA_DEVICES "$devices"
    number CHIMERA_MINI_BATCH_SIZE "${CHIMERA_MINI_BATCH_SIZE:-}"
    body="\"model\":\"$CHIMERA_MODEL\",\"devices\":$devices,\"mini_batch_size\":$CHIMERA_MINI_BATCH_SIZE"
    body="$body${CHIMERA_CLUSTER:+,\"cluster\":\"$CHIMERA_CLUSTER\"}"
    body="{$body${CHIMERA_ACCELERATOR:+,\"accelerator\":\"$CHIMERA_ACCELERATOR\"}}"
}

# The answer with its headers and, on a last line, its status. The key goes over stdin, where ps does not look.
# A service that was there is waited for: it is being started again, and knows the Idempotency-Key.
call() {
    began=$(date +%s)
    while :; do
        came=$(call_once "$@")
        case $came in
            *'curl: (28)'*) break ;;
            *'curl: (7)'*) [ -n "$was_there" ] || break ;;
            *'curl: (52)'* | *'curl: (56)'*) was_there=yes ;;
            *) break ;;
        esac
        [ $(($(date +%s) - began)) -lt "$patience" ] || break
        sleep 1
    done
    printf '%s' "$came"
}

call_once() {
    path=$1
    shift
    printf '%s\n' "${CHIMERA_API_KEY:+header = \"Authorization: Bearer $CHIMERA_API_KEY\"}" |
        curl --config - --globoff ${direct:+--noproxy "*"} --silent --show-error --include --connect-timeout 3 --max-time "$patience" \
            --retry 3 --retry-delay 1 --retry-max-time "$patience" --write-out '\n%{http_code}' \
            "$@" "$url$path" 2>&1
}

# What a problem says of itself, on one short line.
detail() {
    told=$(printf '%s' "$1" | tr -d '\r' | sed -n 's/.*"detail": *"\([^"]*\).*/\1/p' | tail -n 1 | tr -cd ' -~' | cut -c 1-300)
    printf '%s' "${told:-it answered ${1##*
}}"
}

url=${CHIMERA_URL:-http://127.0.0.1:8000}
url=${url%/}
# A proxy of the cluster leads nowhere from this host to itself.
case $url in
    *://127.0.0.1 | *://127.0.0.1[:/]* | *://localhost | *://localhost[:/]* | *://'[::1]'*) direct=yes ;;
    *) direct= ;;
esac
patience=${CHIMERA_PATIENCE:-10}
was_there=
body=${CHIMERA_REQUEST:-}
[ -n "${CHIMERA_MODEL:-}$body" ] || exit 0
[ -n "$body" ] || request
command -v curl >/dev/null 2>&1 || give_up "there is no curl on $(uname -n)"
number CHIMERA_PATIENCE "$patience"
case ${CHIMERA_API_KEY:-} in
    *[!A-Za-z0-9._~+/=-]*) give_up "CHIMERA_API_KEY is not a key" ;;
esac

answer=$(call "/v1/studies" --header 'Content-Type: application/json' \
    --header "Idempotency-Key: slurm-${SLURM_CLUSTER_NAME:+$SLURM_CLUSTER_NAME-}${SLURM_JOB_ID:-$$}-${SLURM_RESTART_COUNT:-0}" \
    --data-raw "$body")
case ${answer##*
} in
    20[012]) ;;
    [1-5][0-9][0-9]) give_up "$url refuses the question: $(detail "$answer")" ;;
    *) give_up "$url does not answer: $(printf '%s' "$answer" | grep -m 1 '^curl:' | cut -c 1-200)" ;;
esac
study=$(printf '%s\n' "$answer" | tr -d '\r' | sed -n 's/^[Ll]ocation: *//p' | tail -n 1)
study=${study##*/}
case $study in
    '' | *[!0-9a-z]*) give_up "what answers at $url is not the service" ;;
esac

was_there=yes
answer=$(call "/v1/studies/$study/export/env")
case ${answer##*
} in
    200) ;;
    [1-5][0-9][0-9]) give_up "study $study: $(detail "$answer")" ;;
    *) give_up "$url stopped answering: $(printf '%s' "$answer" | grep -m 1 '^curl:' | cut -c 1-200)" ;;
esac
# Only lines that set a plain word are passed on, whoever answered; how many devices are used is W·D, and
# CHIMERA_DEVICES stays what the next question of this job asks for.
settings=$(printf '%s\n' "$answer" | tr -d '\r' | grep -E '^export CHIMERA_[A-Z_]+=[A-Za-z0-9_.,-]+$' |
    grep -v '^export CHIMERA_DEVICES=')
[ -n "$settings" ] || give_up "study $study came without settings"
printf '%s\n' "$settings"
printf 'chimera: as chosen by %s/studies/%s\n' "$url" "$study" >&2
exit 0
