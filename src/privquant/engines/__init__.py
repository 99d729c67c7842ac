"""When one machine is not enough: the same protocols and the same experiments on a cluster that exists already.

    executor_at("ray://auto")   blocks of trials on Ray or Dask: `lab.sweep(..., executor=...)`, `sweep --engine`
    RayPopulation               users in partitions on a Ray cluster: `pq.run(protocol, population)`

Ray and Dask are imported where they are used and nowhere else. `partitions` is the interface another engine
implements, `kept_partition` the one implementation of what a partition promises.
"""

from privquant.engines.executors import executor_at as executor_at
from privquant.engines.kept_partition import KeptPartition as KeptPartition
from privquant.engines.partitions import Answered as Answered
from privquant.engines.partitions import OneUser as OneUser
from privquant.engines.partitions import Partition as Partition
from privquant.engines.partitions import PartitionedPopulation as PartitionedPopulation
from privquant.engines.partitions import Signs as Signs
from privquant.engines.ray_population import RayPopulation as RayPopulation
