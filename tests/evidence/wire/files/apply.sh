# OpenTofu applies, again and again. $1: tofu, $2: how long each apply works in s, $3: cycles, $4: how long it waits.
"$1" init -input=false -no-color || exit 9
for _ in $(seq "$3"); do
  "$1" apply -auto-approve -input=false -no-color -lock-timeout="$4" -var hold="$2"
done
