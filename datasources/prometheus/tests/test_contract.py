"""The datasource type keeps its contract."""

from tocsin.plugin.testkit.components import Answer, Request
from tocsin.plugin.testkit.components.sink import Behaviour
from tocsin.plugin.testkit.datasource import DatasourceContract

VECTOR = b"""{"status":"success","data":{"resultType":"vector","result":[
  {"metric":{"__name__":"up","job":"a"},"value":[1700000000.5,"1"]},
  {"metric":{"__name__":"up","job":"b"},"value":[1700000000.5,"NaN"]}]}}"""


class TestPrometheus(DatasourceContract):
    plugin = "tocsin_datasource_prometheus"

    def healthy(self, request: Request) -> Behaviour:
        return Answer(200, VECTOR, {"Content-Type": "application/json"})

    def refusal(self, request: Request) -> Behaviour:
        return Answer(400, b'{"status":"error","errorType":"bad_data","error":"parse error at char 3"}')

    def settings(self) -> dict[str, str]:
        return {"prometheus.tsdb_type": "Prometheus", "write_addr": "http://127.0.0.1:9/write"}
