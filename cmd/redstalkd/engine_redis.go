package main

import (
	"context"

	"redstalk/storage"
	"redstalk/storage/redis"
)

// redisSchemes are the URL schemes that storage/redis accepts.
var redisSchemes = map[string]bool{
	"redis": true, "redis+sentinel": true, "redis+cluster": true,
	"rediss": true, "rediss+sentinel": true, "rediss+cluster": true,
	"unix": true,
}

func openRedis(ctx context.Context, e engine) (storage.Store, error) {
	store, err := redis.Open(ctx, redis.Options{
		URL: e.url, Namespace: e.namespace, Partitions: e.partitions, Version: Version, Log: e.log,
		Timeout: e.timeout, WaitReplicas: e.waitReplicas, AllowEviction: e.allowEviction, MaxJobSize: e.maxJobSize,
	})
	if err != nil {
		return nil, err // and not store: a nil *redis.Store in a Store is not nil
	}
	return store, nil
}
