#!/usr/bin/env bash
# Exercises the server at HOST PORT with nothing but nc (OpenBSD's). Exits with 0 if
# everything is correct. Prints "restart" to request that the server is stopped and
# started again, and waits for a line that says that this was done.
set -u
export LC_ALL=C

[ $# = 2 ] || { echo 'usage: life.bash HOST PORT' >&2; exit 2; }
HOST=$1 PORT=$2
LEDGER=500 # how many jobs go from two producers to two consumers
DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT

declare -A TO FROM PID # of each connection: where to write, where to read, its nc

fail() {
  echo "FAILED: $*, at lines ${BASH_LINENO[*]}" >&2
  exit 1
}

same() { [ "$2" = "$3" ] || fail "$1 is '$2', want '$3'"; }

# open NAME: a new connection.
open() {
  local pipes=$DIR/$BASHPID.$1 to from
  mkfifo "$pipes.to" "$pipes.from" || fail mkfifo
  ( for fd in "${TO[@]}" "${FROM[@]}"; do exec {fd}>&-; done
    exec nc -N "$HOST" "$PORT" <"$pipes.to" >"$pipes.from" ) &
  PID[$1]=$!
  exec {to}>"$pipes.to" {from}<"$pipes.from"
  TO[$1]=$to FROM[$1]=$from
  rm "$pipes.to" "$pipes.from"
}

# ended NAME: the server has closed the connection, and nc has noticed.
ended() {
  local fd=${TO[$1]} rest
  exec {fd}>&-
  rest=$(timeout 30 cat <&"${FROM[$1]}") || fail "the connection of $1 stays open"
  same "what came last to $1" "$rest" ''
  fd=${FROM[$1]}
  exec {fd}<&-
  wait "${PID[$1]}"
  unset "TO[$1]" "FROM[$1]" "PID[$1]"
}

quit() {
  send "$1" quit
  ended "$1"
}

# send NAME COMMAND...: command lines, in one write.
send() {
  local name=$1
  shift
  printf '%s\r\n' "$@" >&"${TO[$name]}"
}

# line NAME: the next line that comes, in $LINE.
line() {
  IFS= read -r -t 30 -u "${FROM[$1]}" LINE || fail "nothing comes to $1"
  [ "${LINE: -1}" = $'\r' ] || fail "'$LINE' has no CR"
  LINE=${LINE%$'\r'}
}

# expect NAME LINE...: these lines come.
expect() {
  local name=$1 want
  shift
  for want in "$@"; do
    line "$name"
    same "the line to $name" "$LINE" "$want"
  done
}

# ask NAME COMMAND LINE...: to this command these lines come.
ask() {
  local name=$1 command=$2
  shift 2
  send "$name" "$command"
  expect "$name" "$@"
}

# put NAME PRI DELAY TTR TEXT: the new job, in $ID.
put() {
  send "$1" "put $2 $3 $4 ${#5}" "$5"
  line "$1"
  [[ $LINE =~ ^INSERTED\ ([0-9]+)$ ]] || fail "put: '$LINE'"
  ID=${BASH_REMATCH[1]}
}

# page NAME COMMAND: a page of statistics or names, in $PAGE.
page() {
  send "$1" "$2"
  line "$1"
  [[ $LINE =~ ^OK\ ([0-9]+)$ ]] || fail "$2: '$LINE'"
  PAGE=$(head -c "${BASH_REMATCH[1]}" <&"${FROM[$1]}")
  expect "$1" ''
}

# figure KEY: a value of the page, in $FIGURE.
figure() {
  [[ $'\n'$PAGE$'\n' =~ $'\n'"$1: "([^$'\n']*)$'\n' ]] || fail "no $1 in $PAGE"
  FIGURE=${BASH_REMATCH[1]}
}

# has KEY VALUE...: the page has these pairs.
has() {
  while [ $# != 0 ]; do
    figure "$1"
    same "$1" "$FIGURE" "$2"
    shift 2
  done
}

# job NAME ID KEY VALUE...: the page of the job has these pairs.
job() {
  page "$1" "stats-job $2"
  shift 2
  has "$@"
}

now() { NOW=${EPOCHREALTIME/./}; }

# within BEGUN LEAST MOST WHAT: how many ms something took since BEGUN. Late is
# allowed, early is not.
within() {
  now
  local took=$(((NOW - $1) / 1000))
  ((took >= $2 && took <= $3)) || fail "$4 took $took ms, want $2 to $3"
}

# queue NAME TUBE: a connection that uses and watches one tube.
queue() {
  open "$1"
  send "$1" "use $2" "watch $2" 'ignore default'
  expect "$1" "USING $2" 'WATCHING 2' 'WATCHING 1'
}

life() {
  local id begun
  queue a life
  ask a list-tube-used 'USING life'
  page a list-tubes-watched
  same 'the tubes watched' "$PAGE" $'---\n- life'
  put a 7 0 60 'a life'; id=$ID
  job a "$id" id "$id" tube life state ready pri 7 delay 0 ttr 60
  ask a "peek $id" "FOUND $id 6" 'a life'
  ask a peek-ready "FOUND $id 6" 'a life'
  ask a peek-delayed NOT_FOUND
  ask a peek-buried NOT_FOUND

  ask a reserve "RESERVED $id 6" 'a life'
  job a "$id" state reserved
  ask a peek-ready NOT_FOUND
  sleep 1.1
  page a "stats-job $id"; figure time-left
  ((FIGURE <= 58)) || fail 'the time to run does not run'
  ask a "touch $id" TOUCHED
  page a "stats-job $id"; figure time-left
  ((FIGURE >= 59)) || fail 'touch has not touched'

  now; begun=$NOW
  ask a "release $id 3 1" RELEASED
  job a "$id" state delayed pri 3 delay 1
  ask a peek-delayed "FOUND $id 6" 'a life'
  ask a 'reserve-with-timeout 5' "RESERVED $id 6" 'a life'
  within "$begun" 1000 3000 'the delay'
  ask a "release $id 4 0" RELEASED
  job a "$id" state ready pri 4
  buried "$id"
  gone "$id"
  quit a
}

buried() {
  ask a reserve "RESERVED $1 6" 'a life'
  ask a "bury $1 5" BURIED
  job a "$1" state buried pri 5
  ask a peek-buried "FOUND $1 6" 'a life'
  ask a 'kick 10' 'KICKED 1'
  ask a 'kick 10' 'KICKED 0'
  ask a reserve "RESERVED $1 6" 'a life'
  ask a "bury $1 5" BURIED
  ask a "kick-job $1" KICKED
  job a "$1" state ready
  ask a "reserve-job $1" "RESERVED $1 6" 'a life'
  ask a "reserve-job $1" NOT_FOUND
  job a "$1" state reserved reserves 5 releases 2 buries 2 kicks 2 timeouts 0
  ask a "delete $1" DELETED
}

# gone ID: every command about a job reports that there is none.
gone() {
  local command
  for command in "delete $1" "release $1 0 0" "bury $1 0" "touch $1" "kick-job $1" "peek $1" "stats-job $1" "reserve-job $1"; do
    ask a "$command" NOT_FOUND
  done
}

# Only the holder of a job may change it, and releases it when it disconnects.
holders() {
  local command id
  queue a holders
  queue b holders
  put a 0 0 60 mine; id=$ID
  ask a reserve "RESERVED $id 4" mine
  for command in "delete $id" "release $id 0 0" "bury $id 0" "touch $id"; do
    ask b "$command" NOT_FOUND
  done
  ask b "peek $id" "FOUND $id 4" mine
  quit a
  ask b 'reserve-with-timeout 5' "RESERVED $id 4" mine
  job b "$id" reserves 2 timeouts 0 releases 0
  ask b "delete $id" DELETED
  quit b
}

# The smallest priority first, of all tubes that are watched; among equals the
# first that was put.
order() {
  local nine first second least
  queue a order-1
  put a 9 0 60 9; nine=$ID
  ask a 'use order-2' 'USING order-2'
  put a 5 0 60 5; first=$ID
  put a 5 0 60 5; second=$ID
  ask a 'use order-1' 'USING order-1'
  put a 1 0 60 1; least=$ID
  ask a 'watch order-2' 'WATCHING 2'
  ask a reserve "RESERVED $least 1" 1
  ask a "delete $least" DELETED
  ask a reserve "RESERVED $first 1" 5
  ask a "delete $first" DELETED
  ask a 'ignore order-2' 'WATCHING 1'
  ask a 'ignore order-1' NOT_IGNORED
  ask a reserve "RESERVED $nine 1" 9
  ask a 'reserve-with-timeout 0' TIMED_OUT
  ask a "delete $nine" DELETED
  ask a "delete $second" DELETED
  ask a 'watch a:b' BAD_FORMAT
  ask a nonsense UNKNOWN_COMMAND
  quit a
}

pause() {
  local id begun
  queue a paused
  put a 0 0 60 later; id=$ID
  now; begun=$NOW
  ask a 'pause-tube paused 2' PAUSED
  page a 'stats-tube paused'
  has pause 2
  ask a 'reserve-with-timeout 0' TIMED_OUT
  ask a 'reserve-with-timeout 5' "RESERVED $id 5" later
  within "$begun" 2000 4000 'the pause'
  ask a "release $id 0 0" RELEASED
  now; begun=$NOW
  ask a 'pause-tube paused 100' PAUSED
  ask a 'reserve-with-timeout 0' TIMED_OUT
  ask a 'pause-tube paused 0' PAUSED
  ask a 'reserve-with-timeout 5' "RESERVED $id 5" later
  within "$begun" 0 2000 'resuming'
  ask a "delete $id" DELETED
  ask a 'pause-tube nowhere 1' NOT_FOUND
  quit a
}

statistics() {
  local ready other key more before
  queue a figures
  page a stats; before=$PAGE
  put a 10 0 60 x; ready=$ID
  put a 1 0 60 y; other=$ID
  ask a reserve "RESERVED $other 1" y
  ask a "bury $other 1" BURIED
  page a stats
  while read -r key more; do
    figure "$key"
    [[ $before =~ $'\n'"$key: "([0-9]+) ]]
    same "more $key" $((FIGURE - BASH_REMATCH[1])) "$more"
  done <<<$'cmd-put 2\ncmd-bury 1\ncmd-stats 1\ntotal-jobs 2\ncurrent-jobs-ready 1\ncurrent-jobs-urgent 1\ncurrent-jobs-buried 1'
  has max-job-size 65535 draining false
  page a 'stats-tube figures'
  has name figures current-jobs-ready 1 current-jobs-buried 1 total-jobs 2 current-using 1 current-watching 1 cmd-delete 0
  page a list-tubes
  same 'list-tubes' "$(tail -n +2 <<<"$PAGE" | sort)" $'- default\n- figures'
  ask a "delete $ready" DELETED
  ask a "delete $other" DELETED
  page a 'stats-tube figures'
  has cmd-delete 2
  ask a 'stats-tube nowhere' NOT_FOUND
  quit a
}

# Bodies with bytes that a shell cannot hold travel in files, and come back to
# an nc that has shut down its sending side before it got any reply.
bodies() {
  local id size
  queue a bodies
  for id in $(seq 0 255); do printf "\\x$(printf %x "$id")"; done >"$DIR/every"
  : >"$DIR/empty"
  printf '\r\n' >"$DIR/newline"
  printf 'a\r\ndelete 1\r\n\r\n' >"$DIR/commands"
  head -c 65535 /dev/urandom >"$DIR/largest"
  for name in every empty newline commands largest; do
    size=$(wc -c <"$DIR/$name")
    { printf 'use bodies\r\nput 0 0 60 %d\r\n' "$size"; cat "$DIR/$name"; printf '\r\n'; } |
      timeout 30 nc -N "$HOST" "$PORT" >"$DIR/replies" || fail "nc: $?"
    id=$(sed -n 's/^INSERTED \([0-9]*\)\r$/\1/p' "$DIR/replies")
    send a reserve
    expect a "RESERVED $id $size"
    head -c "$size" <&"${FROM[a]}" | cmp - "$DIR/$name" || fail "reserve: another body of $name"
    expect a ''
    printf 'peek %d\r\n' "$id" | timeout 30 nc -N "$HOST" "$PORT" >"$DIR/replies" || fail "nc: $?"
    { printf 'FOUND %d %d\r\n' "$id" "$size"; cat "$DIR/$name"; printf '\r\n'; } | cmp - "$DIR/replies" || fail "peek: another body of $name"
    ask a "delete $id" DELETED
  done
  ask a $'put 0 0 60 1\r\nabc' EXPECTED_CRLF UNKNOWN_COMMAND
  { printf 'put 0 0 60 65536\r\nx'; cat "$DIR/largest"; printf '\r\n'; } >&"${TO[a]}"
  expect a JOB_TOO_BIG
  quit a
}

waiting() {
  local begun id
  queue a waiting
  queue b waiting
  now; begun=$NOW
  ask a 'reserve-with-timeout 0' TIMED_OUT
  within "$begun" 0 900 'no timeout'
  now; begun=$NOW
  ask a 'reserve-with-timeout 1' TIMED_OUT
  within "$begun" 1000 2000 'a timeout of 1 s'

  now; begun=$NOW
  send a reserve
  sleep 0.3
  put b 0 0 3 'comes late'; id=$ID
  expect a "RESERVED $id 10" 'comes late'
  within "$begun" 300 2000 'waiting for a job'

  # Two seconds after the reservation there is one left.
  now; begun=$NOW
  ask a reserve DEADLINE_SOON
  within "$begun" 1700 3000 'DEADLINE_SOON'
  ask a "touch $id" TOUCHED
  ask a 'reserve-with-timeout 0' TIMED_OUT
  ask a "delete $id" DELETED

  put a 0 0 1 'too slow'; id=$ID
  ask a reserve "RESERVED $id 8" 'too slow'
  sleep 1.3
  ask a list-tube-used 'USING waiting' # beanstalkd may notice only now
  ask b 'reserve-with-timeout 5' "RESERVED $id 8" 'too slow'
  job b "$id" reserves 2 timeouts 1
  ask a "delete $id" NOT_FOUND
  ask b "delete $id" DELETED
  send a reserve
  quit b
  local fd=${TO[a]} # nobody is left who could put: shutting down ends the waiting
  exec {fd}>&-
  expect a TIMED_OUT
  ended a
}

# restart requests a restart of the server.
restart() {
  echo restart
  read -r || fail 'nobody has restarted the server'
}

restarts() {
  survive
  survive
}

survive() {
  local other held ready delayed i
  queue a survivors
  queue b deserted
  put a 1 0 60 buried; other=$ID
  ask a reserve "RESERVED $other 6" buried
  ask a "bury $other 6" BURIED
  put a 1 0 60 held; held=$ID
  ask a reserve "RESERVED $held 4" held
  put a 2 0 60 ready; ready=$ID
  put a 3 100 60 delayed; delayed=$ID
  send b reserve
  restart
  ended a
  ended b

  queue a survivors
  job a "$other" state buried pri 6 tube survivors
  job a "$delayed" state delayed pri 3 delay 100 ttr 60
  job a "$ready" state ready pri 2
  for i in 1 2; do # a killed instance's reservations may take a while
    send a 'reserve-with-timeout 15'
    line a
    case $LINE in
      "RESERVED $held 4") expect a held; ask a "delete $held" DELETED ;;
      "RESERVED $ready 5") expect a ready; ask a "delete $ready" DELETED ;;
      *) fail "reserve: $LINE" ;;
    esac
  done
  ask a "kick-job $delayed" KICKED
  ask a 'reserve-with-timeout 5' "RESERVED $delayed 7" delayed
  ask a "delete $delayed" DELETED
  ask a 'kick 1' 'KICKED 1'
  ask a 'reserve-with-timeout 5' "RESERVED $other 6" buried
  ask a "delete $other" DELETED
  put a 0 0 60 new
  ((ID > delayed)) || fail 'an id was given twice'
  ask a "delete $ID" DELETED
  quit a
}

ledger() {
  local part pid producers=() consumers=()
  for part in 0 1; do
    produce "$part" & producers+=($!)
    consume >"$DIR/done.$part" & consumers+=($!)
  done
  for pid in "${producers[@]}"; do wait "$pid" || fail 'a producer has failed'; done
  : >"$DIR/produced"
  for pid in "${consumers[@]}"; do wait "$pid" || fail 'a consumer has failed'; done
  cat "$DIR/done.0" "$DIR/done.1" | sort -n >"$DIR/done"
  seq 0 $((LEDGER - 1)) | diff - "$DIR/done" >&2 || fail 'not every job was done once'
}

produce() {
  local n
  trap - EXIT
  queue a ledger
  for ((n = $1; n < LEDGER; n += 2)); do
    put a $((n % 7)) $((n % 100 == 50 ? 1 : 0)) 60 "$n"
  done
  quit a
}

# consume prints the names of finished jobs, until there are no more. Every
# fiftieth job is released once.
consume() {
  local id name last
  trap - EXIT
  queue a ledger
  while :; do
    last=
    [ ! -e "$DIR/produced" ] || last=yes
    send a 'reserve-with-timeout 3'
    line a
    if [ "$LINE" = TIMED_OUT ]; then
      [ -z "$last" ] || break
      continue
    fi
    [[ $LINE =~ ^RESERVED\ ([0-9]+)\ [0-9]+$ ]] || fail "reserve: $LINE"
    id=${BASH_REMATCH[1]}
    line a; name=$LINE
    if ((name % 50 == 7)); then
      page a "stats-job $id"; figure releases
      if [ "$FIGURE" = 0 ]; then
        ask a "release $id 0 0" RELEASED
        continue
      fi
    fi
    ask a "delete $id" DELETED
    echo "$name"
  done
  quit a
}

# The parts up to waiting measure seconds.
for part in life pause waiting holders order statistics bodies restarts ledger; do
  "$part"
  echo "ok $part"
done
