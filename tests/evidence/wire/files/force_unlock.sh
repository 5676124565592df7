# Two unlocks of one lock: n1 unlocks late, n2 has given up on n1 and unlocks by force, n3 waits. $1: tofu, $2: client.
"$1" init -input=false -no-color || exit 9
apply() { "$tofu" apply -auto-approve -input=false -no-color -lock-timeout="$1" -var hold="$2"; }
tofu=$1
case $2 in
n1) apply 60s 1 ;;
n2)
  sleep 2
  id=$(apply 0s 1 2>&1 | sed -n 's/^ *ID: *//p')
  "$tofu" force-unlock -force "$id"
  apply 60s 12
  ;;
*)
  sleep 6
  apply 60s 8
  ;;
esac
