// A small program around Litestream's released leaser: it takes the lease, renews it, writes the object that the lease
// guards, and gives the lease back.
//
// Usage: leaser CYCLES HOLD TTL, the last two as Go writes durations.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/benbjohnson/litestream"
	"github.com/benbjohnson/litestream/s3"
)

const poll = 100 * time.Millisecond

func main() {
	cycles, err := strconv.Atoi(os.Args[1])
	must(err)
	hold, err := time.ParseDuration(os.Args[2])
	must(err)
	ttl, err := time.ParseDuration(os.Args[3])
	must(err)
	ctx := context.Background()
	settings, err := config.LoadDefaultConfig(ctx)
	must(err)
	client := awss3.NewFromConfig(settings, func(o *awss3.Options) { o.UsePathStyle = true })
	leaser := s3.NewLeaser()
	leaser.SetClient(client)
	leaser.Bucket, leaser.Path, leaser.TTL = os.Getenv("LOCKREF_BUCKET"), "locks", ttl
	leaser.Owner = os.Getenv("LOCKREF_CLIENT")
	for n := 0; n < cycles; n++ {
		lease := acquire(ctx, leaser)
		lease = work(ctx, leaser, lease, hold, ttl)
		if lease == nil {
			fmt.Println("lease lost")
			continue
		}
		put(ctx, client, leaser.Bucket, fmt.Sprintf("%s %d", leaser.Owner, n))
		if err := leaser.ReleaseLease(ctx, lease); err != nil {
			fmt.Println("release:", err)
		}
		time.Sleep(poll / 4)
	}
}

func acquire(ctx context.Context, leaser *s3.Leaser) *litestream.Lease {
	for {
		lease, err := leaser.AcquireLease(ctx)
		if err == nil {
			return lease
		}
		var held *litestream.LeaseExistsError
		if !errors.As(err, &held) {
			fmt.Println("acquire:", err)
		}
		time.Sleep(poll)
	}
}

// work renews three times in each TTL, as Litestream's documentation advises, and returns nil once the lease is lost.
func work(ctx context.Context, leaser *s3.Leaser, lease *litestream.Lease, hold, ttl time.Duration) *litestream.Lease {
	for end := time.Now().Add(hold); time.Now().Before(end); {
		time.Sleep(min(time.Until(end), ttl/3))
		renewed, err := leaser.RenewLease(ctx, lease)
		if errors.Is(err, litestream.ErrLeaseNotHeld) {
			return nil
		}
		if err == nil {
			lease = renewed
		}
	}
	return lease
}

func put(ctx context.Context, client *awss3.Client, bucket, text string) {
	_, err := client.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: aws.String(bucket), Key: aws.String("state/x"), Body: strings.NewReader(text),
	})
	if err != nil {
		fmt.Println("put:", err)
	}
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
