# The released command of gcslock: it runs a command under its lock. $1: gcslock, $2: cycles, $3: hold, $4: expiry in s.
# The second client comes a moment later, so that it meets the first one's lock.
[ "$LOCKREF_CLIENT" = n1 ] || sleep 1.5
for _ in $(seq "$2"); do
  "$1" -b "$LOCKREF_BUCKET" -k "${5:-guard}" -o "$LOCKREF_CLIENT" -e "$4" -w 60 -- sh -c \
    "sleep $3; curl -s -o /dev/null --data-binary $LOCKREF_CLIENT '$STORAGE_EMULATOR_HOST/upload/storage/v1/b/$LOCKREF_BUCKET/o?uploadType=media&name=state/x'"
  sleep 0.1
done
