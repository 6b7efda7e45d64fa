package redis

import (
	"context"
	"fmt"
	"strconv"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// layoutVersion is that of lua/10_batch.lua. A namespace written by
	// another one is not touched.
	layoutVersion = 2

	// partitions is how many there are on a standalone Redis, so that ids
	// are 1, 2, 3 …
	partitions = 1
)

// prepare checks that Redis answers and that the namespace is ours to use,
// marking it if it is new. The mark is the hash NAMESPACE:{0}:layout.
func prepare(ctx context.Context, client goredis.UniversalClient, namespace string) error {
	key := keyPrefix(namespace, 0) + "layout"
	want := map[string]int{"version": layoutVersion, "partitions": partitions}
	for field, value := range want {
		if err := client.HSetNX(ctx, key, field, value).Err(); err != nil {
			return err
		}
	}
	have, err := client.HGetAll(ctx, key).Result()
	if err != nil {
		return err
	}
	for field, value := range want {
		if have[field] != strconv.Itoa(value) {
			return fmt.Errorf("the namespace %q has %s %s, and this redstalk needs %d: choose another namespace", namespace, field, have[field], value)
		}
	}
	return nil
}
