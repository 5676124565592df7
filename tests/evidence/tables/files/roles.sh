# The program of one client: PYTHON PLAN CLIENT. What it prints is kept beside its log of attempts.
folder=$(dirname "$2")
exec "$1" "$(dirname "$0")/roles.py" "$2" "$3" >> "$folder/$3.log" 2>&1
