import edu.cmu.graphchi.apps.Pagerank;
import edu.cmu.graphchi.datablocks.FloatConverter;
import edu.cmu.graphchi.engine.GraphChiEngine;
import edu.cmu.graphchi.io.CompressedIO;

/** GraphChi's Pagerank over a graph of 4 shards that is there already: Walk GRAPH ITERATIONS. Its own main does four. */
public class Walk {
    public static void main(String[] words) throws Exception {
        CompressedIO.disableCompression();
        GraphChiEngine<Float, Float> engine = new GraphChiEngine<Float, Float>(words[0], 4);
        engine.setEdataConverter(new FloatConverter());
        engine.setVertexDataConverter(new FloatConverter());
        engine.setModifiesInedges(false);
        engine.run(new Pagerank(), Integer.parseInt(words[1]));
    }
}
