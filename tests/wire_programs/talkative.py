"""A program that shows its secrets wherever it can: in headers, in queries, in its arguments and in its output."""

import os
import sys
import urllib.error
import urllib.request

import boto3

SECRET = sys.argv[1]


def main() -> None:
    s3 = boto3.client("s3")
    bucket, endpoint = os.environ["LOCKREF_BUCKET"], os.environ["LOCKREF_ENDPOINT"]
    body = b'{"id": "me", "until": 1.5}'
    s3.put_object(Bucket=bucket, Key="locks/lease.json", Body=body, IfNoneMatch="*", Metadata={"token": SECRET})
    s3.put_object(Bucket=bucket, Key="state/counter", Body=SECRET.encode())
    signed = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "locks/lease.json"})
    urllib.request.urlopen(signed).read()
    for query in (f"sig={SECRET}&se=1", f"access_token={SECRET}", f"X-Amz-Signature={SECRET}"):
        headers = {"Authorization": f"Bearer {SECRET}", "x-amz-security-token": SECRET, "Cookie": SECRET}
        request = urllib.request.Request(f"{endpoint}/{bucket}/state/other?{query}", headers=headers)
        try:
            urllib.request.urlopen(request).read()
        except urllib.error.HTTPError as error:
            error.read()
    s3.delete_object(Bucket=bucket, Key="locks/lease.json")


main()
