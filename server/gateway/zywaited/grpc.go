package zywaited

import (
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"redstalk/server/gateway"
	"redstalk/server/gateway/zywaited/pb"
	"redstalk/server/httpserve"
)

// NewGRPC returns the gRPC API of a service, for a server that speaks HTTP/2, with
// reflection and the health service.
func NewGRPC(s *Service) http.Handler {
	g := grpc.NewServer(grpc.MaxRecvMsgSize(int(gateway.MaxBody(s.queue.MaxJobSize()))))
	pb.RegisterDelayQueueServer(g, s)
	state := health.NewServer()
	state.SetServingStatus(pb.DelayQueue_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(g, state)
	reflection.Register(g)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, ok := methods[r.URL.Path]; ok {
			httpserve.Name(w, name)
		}
		g.ServeHTTP(w, r)
	})
}

// methods are the names of the service's methods in metrics.
var methods = map[string]string{
	pb.DelayQueue_Add_FullMethodName: "Add", pb.DelayQueue_Get_FullMethodName: "Get", pb.DelayQueue_Remove_FullMethodName: "Remove",
}
